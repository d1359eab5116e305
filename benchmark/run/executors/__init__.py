"""Where the encoders of a plan are trained and measured: processes of this machine, of a group, of a cluster."""
