"""Models as servers take them."""
