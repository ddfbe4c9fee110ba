"""From records to releases: streaming, files, certificates, payment, saved models, verification."""
