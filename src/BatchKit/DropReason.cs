namespace BatchKit;

/// <summary>Why messages were dropped. Nothing is dropped without one of these, counted.</summary>
public enum DropReason
{
    /// <summary>There was no room, and the policy says to drop.</summary>
    Overflow = 0,

    /// <summary>The buffer stopped, and its drain limit passed before these were sent.</summary>
    Stopped = 1,
}
