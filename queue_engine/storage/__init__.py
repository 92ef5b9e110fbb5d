"""The protocols through which delivery uses storage, and the code that both storage kinds share."""
