namespace BatchKit.Tool.Json;

/// <summary>How many messages came back. The names are a contract with scripts.</summary>
internal sealed record ReplayedJson(string Queue, long Replayed);
