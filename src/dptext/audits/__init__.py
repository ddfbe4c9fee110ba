"""Attacks on guarantees. An audit can refute a claim, never prove one."""
