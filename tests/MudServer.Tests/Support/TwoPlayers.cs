using MudServer.Softcode;

namespace MudServer.Tests.Support;

/// <summary>A world with Ana and Bob in it.</summary>
internal sealed class TwoPlayers : ISoftcodeWorld
{
    private static readonly SoftcodeObject Bob = new(13, "Bob", 4);

    public IEnumerable<string> ConnectedPlayers => ["#12", "#13"];

    public bool TryFind(SoftcodeObject enactor, string reference, out SoftcodeObject found)
    {
        found = reference is "#13" or "Bob" ? Bob : enactor;
        return reference is "#12" or "#13" or "me" or "Ana" or "Bob";
    }
}
