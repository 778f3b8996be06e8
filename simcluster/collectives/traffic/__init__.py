"""What the steps of an algorithm load on links, for one group or many, with equal parts or unequal ones."""
