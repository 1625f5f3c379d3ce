# One image for Airflow's services, for Spark's master and workers, and for the command line.
# It keeps the layout of the repository, because the package finds its jars and its Spark jobs by that layout.
# Of the packages in include/ it holds penstock only: the embedded stack (penstock_stack) is for a checkout.

# The jars of `reader: spark`: named by pom.xml, checked against jars.sha256, one by one and as a whole.
FROM maven:3.9.9-eclipse-temurin-17 AS jars
WORKDIR /build
COPY pom.xml jars.sha256 ./
RUN mvn -q -B -Dstyle.color=never -P spark -Djars=/build/jars dependency:copy-dependencies \
 && grep ' spark/' jars.sha256 > spark.sha256 \
 && cd jars && sha256sum --check --quiet ../spark.sha256 \
 && test "$(ls spark | wc -l)" = "$(wc -l < ../spark.sha256)"

# The record path in Rust: one library for any Python from 3.11 on, built on the Debian of the image.
FROM rust:1.95-slim-bookworm AS native
WORKDIR /build
ENV PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1
COPY native native
RUN cargo build -q --release --locked --manifest-path native/Cargo.toml

FROM python:3.11.14-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*

# The image creates the folders on which volumes are mounted, so that a new volume belongs to this user and not to root.
RUN useradd --uid 10001 --create-home penstock \
 && mkdir -p /opt/penstock/spark /var/lib/airflow/logs /var/lib/spark \
 && chown -R penstock:penstock /var/lib/airflow /var/lib/spark
WORKDIR /opt/penstock
ENV PATH=/opt/penstock/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYSPARK_PYTHON=/opt/penstock/.venv/bin/python \
    SPARK_CONF_DIR=/opt/penstock/spark \
    SPARK_WORKER_DIR=/var/lib/spark/work \
    AIRFLOW_HOME=/var/lib/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/penstock/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/penstock/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    PENSTOCK_PIPELINES=/opt/penstock/include/pipelines

# Every package is checked by its hash, as in `make setup`.
COPY requirements-uv.lock requirements.lock ./
RUN python -m venv .venv \
 && pip install -q --no-cache-dir --require-hashes -r requirements-uv.lock \
 && uv pip sync -q --no-cache --compile-bytecode --python .venv/bin/python --require-hashes requirements.lock

COPY pyproject.toml README.md ./
COPY include/penstock include/penstock
COPY include/pipelines include/pipelines
RUN uv pip install -q --no-cache --python .venv/bin/python --no-build-isolation --no-deps -e .
COPY --from=native /build/native/target/release/libpenstock_native.so \
  .venv/lib/python3.11/site-packages/penstock_native.abi3.so
COPY --from=jars /build/jars/spark .jars/spark
COPY spark_jobs spark_jobs
COPY dags dags
COPY plugins plugins
# With this archive of the classes that a Spark driver loads, a driver starts in half the time.
RUN python -m penstock.spark.class_archive

USER penstock
CMD ["penstock", "--help"]
