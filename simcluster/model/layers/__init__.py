"""What families of models are built of: decoder blocks, mixtures of experts, latent attention, generation."""
