{{/* What each process reads from /etc/tiphys: what the chart knows, then what the values add. */}}

{{- define "tiphys.operatorSettings" -}}
{{- $known := dict -}}
{{- toYaml (mergeOverwrite $known .Values.operator.settings) }}
{{- end }}

{{- define "tiphys.webhookSettings" -}}
{{- $known := dict -}}
{{- toYaml (mergeOverwrite $known .Values.webhook.settings) }}
{{- end }}

{{- define "tiphys.releaserSettings" -}}
{{- $known := dict -}}
{{- toYaml (mergeOverwrite $known .Values.releaser.settings) }}
{{- end }}
