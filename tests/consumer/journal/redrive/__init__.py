"""What people decide about failures and doubts."""
