"""The nouns: what a knowledge base is made of. No Beam, no models, no input or output."""
