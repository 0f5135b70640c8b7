namespace BatchKit.Buffering;

/// <summary>What became of an append.</summary>
internal enum AppendResult
{
    Accepted,

    /// <summary>The byte budget has no room; the overflow policy decides.</summary>
    NoRoom,

    /// <summary>The handle's buffer was given up as idle meanwhile: look it up again.</summary>
    Retired,

    /// <summary>There was no room, and the overflow policy dropped the message, counted.</summary>
    Dropped,
}
