"""What is said of a rewrite: the record, its words and pictures, and the remedies it offers."""
