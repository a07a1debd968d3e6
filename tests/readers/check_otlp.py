"""Reads messages of OTLP in JSON by the official schema: on each line of standard input a path and a body.

A field that the schema does not have, or a value of another type, is an error. Prints names of metrics and events.
"""

import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

REQUESTS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest}
names = set()
for line in sys.stdin:
    path, body = line.split(" ", 1)
    request = json_format.Parse(body, REQUESTS[path]())
    for resource in getattr(request, "resource_metrics", ()):
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            names.add(metric.name)
            data = getattr(metric, metric.WhichOneof("data"))
            for point in data.data_points:
                assert point.start_time_unix_nano <= point.time_unix_nano, metric
            if metric.WhichOneof("data") != "gauge":
                assert data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE, metric
            if metric.WhichOneof("data") == "exponential_histogram":
                for point in data.data_points:
                    assert point.count == point.zero_count + sum(point.positive.bucket_counts), metric
    for resource in getattr(request, "resource_logs", ()):
        names.update(record.event_name for scope in resource.scope_logs for record in scope.log_records)
print(" ".join(sorted(names)))
