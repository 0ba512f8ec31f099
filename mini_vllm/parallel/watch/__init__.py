"""A process that ends with its parent. Standard library only, so that it watches at once."""
