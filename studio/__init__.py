"""Requirements on the attention that regions of a design get, and what `check` says about them."""
