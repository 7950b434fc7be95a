"""The protocol, without I/O: inputs in, effects out. Nothing here awaits, sleeps, logs or reads a clock.

The caller's duties, in this order:

1. *Journal* a command before any effect of it leaves; effects of a command leave in the order they were returned.
2. *Send* rides over numbered FIFO links, and resend after a restart from the receiver's last durable number.
3. *Acknowledge* a ride (``Stage.acknowledge``) only when the receiver's commit holds it.
4. *Answer* queries (``numbers``, ``name_topics``, ``heads``) no earlier than the commit of all commands stepped before:
   they see what these did, and a crash may undo it.
5. Time is an argument and never decreases; a stage's time stands still while the stage is down.
"""
