"""One file per method; each reads like its paper. Registered by name in `zoo.plugins`."""
