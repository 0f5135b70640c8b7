namespace MudGame;

/// <summary>The section "Mud" of appsettings.json.</summary>
internal sealed class MudSettings
{
    /// <summary>The address that the server listens on: 127.0.0.1 accepts players from this machine only, 0.0.0.0 from all networks.</summary>
    public string Address { get; set; } = "127.0.0.1";

    public int Port { get; set; } = 4000;

    public string Welcome { get; set; } = "Welcome!";

    public string RoomName { get; set; } = "A room";

    public string RoomDescription { get; set; } = "It is empty.";

    /// <summary>The maximum number of items of one @dolist.</summary>
    public int MaxListItems { get; set; } = 1000;

    /// <summary>The maximum number of characters of all commands of one @dolist, because everyone in the room gets what they say.</summary>
    public int MaxListCharacters { get; set; } = 64 * 1024;
}
