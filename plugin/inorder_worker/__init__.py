"""The ordering worker: the sequencer, the store of its state, the service around both, its administration."""
