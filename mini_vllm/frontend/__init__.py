"""What a caller sees: text from token ids, beams."""
