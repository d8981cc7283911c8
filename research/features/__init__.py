"""NER on features of a frozen BERT (Devlin et al. 2019, section 5.3)."""
