namespace BatchKit.Postgres;

/// <summary>What became of a message that was claimed.</summary>
internal enum MessageOutcome
{
    /// <summary>Handled: it is deleted.</summary>
    Done = 0,

    /// <summary>Failed: it is handled again, an attempt later.</summary>
    Retry = 1,

    /// <summary>Given up: it goes to the dead table.</summary>
    Dead = 2,

    /// <summary>Not handled: it goes back as it was, at no attempt's cost.</summary>
    Released = 3,
}
