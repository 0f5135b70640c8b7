namespace BatchKit.Broadcast;

/// <summary>What an <see cref="IRecordCutter"/> found at the start of the bytes.</summary>
public enum CutResult
{
    /// <summary>No whole record yet.</summary>
    Incomplete = 0,

    /// <summary>A record.</summary>
    Record = 1,

    /// <summary>A record that is longer than it may be, or will be: the client is disconnected.</summary>
    TooLong = 2,

    /// <summary>What can be no record: the client is disconnected.</summary>
    Malformed = 3,
}
