namespace MudServer.Softcode;

/// <summary>The properties of an object in the world that softcode may read.</summary>
internal readonly record struct SoftcodeObject(int Id, string Name, int LocationId)
{
    public string Reference => $"#{Id}";
}
