dptext synthesize private.jsonl subjects.json --public pool.jsonl --mechanism topics --set epsilon=1 --set about=4000 --set encoder=glove
