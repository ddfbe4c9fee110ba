"""How far apart are two sets of texts in one embedding?"""
