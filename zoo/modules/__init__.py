"""Parts of several methods: templates, Glow, projection heads."""
