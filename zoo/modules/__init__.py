"""Parts that several methods share: templates, Glow, projection heads."""
