def write(config, experiments):
  pass
