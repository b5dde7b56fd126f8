"""Local stand-ins for the services of a cluster: each a process of its own on 127.0.0.1, started when asked for."""
