"""The verbs: plain functions over the nouns, and thin Beam transforms that wire them."""
