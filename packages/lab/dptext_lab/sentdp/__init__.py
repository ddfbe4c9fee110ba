"""SentDP (Meehan, Mrini, Chaudhuri 2022): public documents chosen by depth, as the paper has it."""
