"""Code generation: only its exceptions exist here."""
