"""From any text to a pre-trained model: all steps as one command."""
