{{/* What each process reads from /etc/tiphys: what the chart knows, then what the values add. */}}

{{- define "tiphys.operatorSettings" -}}
{{- $listen := dict "decisionsPort" .Values.operator.port "metricsPort" .Values.operator.metricsPort -}}
{{- $known := dict "namespace" .Release.Namespace "excludedNamespaces" (include "tiphys.excluded" . | fromJsonArray) "listen" $listen -}}
{{- toYaml (mergeOverwrite $known .Values.operator.settings) }}
{{- end }}

{{- define "tiphys.webhookSettings" -}}
{{- if hasKey (dig "clients" dict .Values.webhook.settings) "certificates" -}}
{{- fail "webhook.settings.clients.certificates is not set here: webhook.clientCertificates says it, and installs what stands in for certificates" -}}
{{- end -}}
{{- $listen := dict "port" .Values.webhook.port "healthPort" .Values.webhook.metricsPort -}}
{{- $decisions := dict "address" (printf "tiphys-operator.%s.svc:%v" .Release.Namespace .Values.operator.port) "serverName" (printf "tiphys-operator.%s.svc" .Release.Namespace) -}}
{{- $known := dict "listen" $listen "decisions" $decisions "clients" (dict "certificates" .Values.webhook.clientCertificates "subjects" .Values.webhook.clientSubjects) "cluster" (dict "namespace" .Release.Namespace) -}}
{{- toYaml (mergeOverwrite $known .Values.webhook.settings) }}
{{- end }}

{{- define "tiphys.releaserSettings" -}}
{{- $known := dict "operatorNamespace" .Release.Namespace "metricsPort" .Values.releaser.metricsPort -}}
{{- toYaml (mergeOverwrite $known .Values.releaser.settings) }}
{{- end }}
