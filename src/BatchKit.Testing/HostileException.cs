using System.Collections;

namespace BatchKit.Testing;

/// <summary>An exception whose members throw, as the text of one does that looks up a resource which was trimmed away. For transports, handlers and loggers that must do no harm.</summary>
/// <remarks>Every member that a logger or an error text may read throws an <see cref="InvalidOperationException"/>. Thread-safe.</remarks>
/// <param name="reads">How many reads pass before the members begin to throw; zero, the default, for none.</param>
public sealed class HostileException(int reads = 0) : Exception
{
    private int _reads;

    /// <inheritdoc/>
    public override string Message => Read("message");

    /// <inheritdoc/>
    public override string? StackTrace => Read("stack trace");

    /// <inheritdoc/>
    public override string? Source
    {
        get => Read("source");
        set => Read("source");
    }

    /// <inheritdoc/>
    public override string? HelpLink
    {
        get => Read("link");
        set => Read("link");
    }

    /// <inheritdoc/>
    public override IDictionary Data
    {
        get
        {
            Read("data");
            return base.Data;
        }
    }

    /// <inheritdoc/>
    public override string ToString() => Read("text");

    /// <inheritdoc/>
    public override Exception GetBaseException()
    {
        Read("base");
        return this;
    }

    private string Read(string member) => Interlocked.Increment(ref _reads) > reads ? throw new InvalidOperationException($"The {member} can't be read.") : member;
}
