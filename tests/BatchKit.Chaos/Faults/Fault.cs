using System.Globalization;

namespace BatchKit.Chaos.Faults;

/// <summary>What is done to a node, its connections, or the broker.</summary>
internal enum FaultKind
{
    /// <summary>SIGKILL; a new process starts afterwards.</summary>
    KillNode = 0,

    /// <summary>SIGTERM: it ends normally; a new process starts afterwards.</summary>
    StopNode = 1,

    /// <summary>SIGSTOP and, afterwards, SIGCONT.</summary>
    FreezeNode = 2,

    /// <summary>Its wall clock jumps.</summary>
    JumpClock = 3,

    /// <summary>All its connections are reset.</summary>
    ResetConnections = 4,

    /// <summary>The connection that carries a certain byte is reset after it, which is in mid-frame as a rule.</summary>
    CutConnection = 5,

    /// <summary>Nothing passes its connections for a time, while those of other nodes work: what they carry overtakes it.</summary>
    DelayConnections = 6,

    /// <summary>Nothing passes the connections that it has, ever again; new ones work.</summary>
    SilenceConnections = 7,

    /// <summary>SIGKILL to the broker, which starts again afterwards.</summary>
    KillBroker = 8,

    /// <summary>The broker ends normally, and starts again afterwards.</summary>
    StopBroker = 9,

    /// <summary>SIGSTOP and, afterwards, SIGCONT.</summary>
    FreezeBroker = 10,

    /// <summary>The broker's disk is full for a time.</summary>
    FillDisk = 11,
}

/// <summary>A fault of a schedule.</summary>
/// <param name="At">When it is due, from the start of the run.</param>
/// <param name="Kind">What is done.</param>
/// <param name="Target">The name of the node, or <see cref="Broker"/>.</param>
/// <param name="Length">How long it lasts.</param>
/// <param name="Amount">The bytes until a cut, or the seconds of a jump; zero for other kinds.</param>
internal sealed record Fault(TimeSpan At, FaultKind Kind, string Target, TimeSpan Length, long Amount)
{
    public const string Broker = "broker";

    public override string ToString()
    {
        var amount = Kind switch
        {
            FaultKind.CutConnection => string.Create(CultureInfo.InvariantCulture, $" after {Amount} bytes"),
            FaultKind.JumpClock => string.Create(CultureInfo.InvariantCulture, $" by {Amount} s"),
            _ => "",
        };
        return string.Create(CultureInfo.InvariantCulture, $"{At.TotalSeconds:0.0} s: {Kind} of {Target}{amount}, for {Length.TotalSeconds:0.0} s");
    }
}

/// <summary>A fault that was made.</summary>
/// <param name="Fault">The fault.</param>
/// <param name="Began">When it really began.</param>
/// <param name="Ended">When what it broke was whole again: the process or broker had started.</param>
internal sealed record MadeFault(Fault Fault, long Began, long Ended);
