namespace MudServer.Softcode;

/// <summary>The world as softcode sees it.</summary>
internal interface ISoftcodeWorld
{
    /// <summary>Finds a thing by <c>#12</c>, <c>me</c>, <c>here</c> or its name, as the enactor would.</summary>
    bool TryFind(SoftcodeObject enactor, string reference, out SoftcodeObject found);

    /// <summary>The references of the players who are connected.</summary>
    IEnumerable<string> ConnectedPlayers { get; }
}
