namespace BatchKit.Tests.Schedules;

/// <summary>How a schedule ends.</summary>
internal enum Ending
{
    /// <summary>The world becomes well, all scopes close, and everything settles.</summary>
    Settle,

    /// <summary>The buffer is stopped over transports that work.</summary>
    StopWhileWell,

    /// <summary>The buffer is stopped over transports that never answer.</summary>
    StopWhileDead,
}
