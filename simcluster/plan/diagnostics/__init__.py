"""What a user is told about a plan: notes, proposals, the profile in words, and refusals of what is too
large.
"""
