namespace BatchKit.Tool.Json;

/// <summary>How many messages were deleted. The names are a contract with scripts.</summary>
internal sealed record DeletedJson(string Queue, long Deleted);
