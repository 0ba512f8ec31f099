"""What the processes of one model share: who holds which part, what they add up, and how a step
reaches them all.
"""
