dptext synthesize private.jsonl requests.jsonl --public pool.jsonl --mechanism votes --set epsilon=1 --set about=4000 --set encoder=glove
