using System.Collections.Immutable;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit;

/// <summary>How a buffer is, with the reasons when it is not well.</summary>
/// <param name="Status">Healthy; degraded when output waits longer than it should; unhealthy when it cannot leave or has stopped.</param>
/// <param name="Reasons">One sentence each, for a person; empty when healthy. They name routes and settings, never a handle or a secret.</param>
public sealed record OutputHealth(HealthStatus Status, ImmutableArray<string> Reasons);
