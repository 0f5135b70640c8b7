namespace BatchKit;

/// <summary>What a control message asks of the last hop.</summary>
public enum ControlOperation
{
    /// <summary>The connection joins the group: it gets what is written to the group from here on.</summary>
    JoinGroup = 1,

    /// <summary>The connection leaves the group.</summary>
    LeaveGroup = 2,

    /// <summary>The connection is closed after what was written before this has been sent.</summary>
    Close = 3,
}
