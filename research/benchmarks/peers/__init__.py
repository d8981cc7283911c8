"""What runs in other projects' interpreters: nothing of bert_tf is imported."""
