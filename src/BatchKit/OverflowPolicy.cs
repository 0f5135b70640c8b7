namespace BatchKit;

/// <summary>What happens to a write when the buffer has no room for it (<see cref="OutputBufferOptions.MaxBufferedBytes"/>).</summary>
/// <remarks>
/// <list type="table">
/// <listheader><term>policy</term><description><c>TryWrite</c> / <c>Write</c> / <c>WriteAsync</c></description></listheader>
/// <item><term>wait</term><description>false / throws, naming the limit / seals what is open, then waits</description></item>
/// <item><term>fail</term><description>false / throws / throws</description></item>
/// <item><term>drop newest</term><description>false, counted / drops, counted / drops, counted</description></item>
/// <item><term>drop oldest</term><description>true; the oldest batches that are not under way go, counted / the same / the same</description></item>
/// </list>
/// </remarks>
public enum OverflowPolicy
{
    /// <summary><c>WriteAsync</c> waits for room; the others report that there is none. The default: nothing is lost.</summary>
    Wait = 0,

    /// <summary>Every write reports that there is no room.</summary>
    Fail = 1,

    /// <summary>The message that finds no room is dropped, counted as dropped with the reason <c>overflow</c>.</summary>
    DropNewest = 2,

    /// <summary>
    /// The oldest batches that are not under way are dropped, counted, until there is room: first those that wait to be sent, then, where none waits, what open scopes
    /// hold. When all that is buffered is under way, nothing older can go, and the new message is dropped as with <see cref="DropNewest"/>.
    /// </summary>
    DropOldest = 3,
}
