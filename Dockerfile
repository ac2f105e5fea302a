# A broker with a name server of its own, from this tree. docs/operations/running.md explains it.
#
#   docker build -t gantrymq .
#   docker run -p 9876:9876 -p 10911:10911 -p 8081:8081 -v gantrymq:/data/store -e brokerIP1=ADDRESS gantrymq
FROM python:3.12 AS build

WORKDIR /src
COPY core core
COPY libs libs
COPY plugins plugins
COPY requirements.txt requirements.txt
RUN python -m venv /opt/gantrymq \
    && /opt/gantrymq/bin/pip install --no-cache-dir -r requirements.txt
# For masters that etcd elects (electionEngine=etcd).
RUN /opt/gantrymq/bin/pip install --no-cache-dir 'aetcd>=1.0,<2'

FROM python:3.12-slim

RUN groupadd --gid 10911 gantrymq \
    && useradd --no-create-home --uid 10911 --gid gantrymq --home-dir /data --shell /usr/sbin/nologin gantrymq \
    && mkdir -p /data/store \
    && chown -R gantrymq:gantrymq /data
COPY --from=build /opt/gantrymq /opt/gantrymq
# The listener for gRPC clients; a file, because variables are for name servers too, and take precedence.
RUN mkdir -p /etc/gantrymq \
    && echo 'listeners=sdk=grpc://0.0.0.0:8081' > /etc/gantrymq/broker.conf

ENV PATH=/opt/gantrymq/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    bindAddress=0.0.0.0 \
    brokerName=broker-a \
    metricsPromExporterHost=0.0.0.0

USER gantrymq
WORKDIR /data
VOLUME /data/store
EXPOSE 9876 10911 8081 5557
STOPSIGNAL SIGTERM

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5557/healthz', timeout=4)"]

ENTRYPOINT ["gantrymq"]
CMD ["start", "-c", "/etc/gantrymq/broker.conf", "--store", "/data/store"]
