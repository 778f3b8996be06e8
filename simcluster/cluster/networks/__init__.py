"""Network fabrics: one file, one way in which the cards of all hosts are joined."""
