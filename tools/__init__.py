"""What noxfile.py is made of."""
