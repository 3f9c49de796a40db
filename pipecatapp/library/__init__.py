"""What people keep: the workflows and prompts that an instance knows."""
