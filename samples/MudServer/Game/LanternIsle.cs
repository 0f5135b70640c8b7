namespace MudServer.Game;

/// <summary>Creates the island that the sample is played on.</summary>
internal static class LanternIsle
{
    public static IReadOnlyList<Room> Create()
    {
        var jetty = new Room(0, "The Jetty", """
            Grey planks reach out into a bay as flat as poured glass. A ferry has just left
            you here, and its wake still rocks the little boats. Behind them the village of
            Lantern climbs its hill, one lit window after the other.
            """);
        var square = new Room(1, "Lantern Square", """
            A square of round cobbles with a well in the middle. To the east light and a
            fiddle spill from an inn; to the west something ticks, a great many times at
            once. A path leaves north for the cliffs.
            """);
        var inn = new Room(2, "The Leaning Lantern", """
            The floor slopes so that every dropped coin ends up under the counter. It is
            warm, it smells of onion soup, and there is always one chair left by the fire.
            A back door stands open to the north.
            """);
        var workshop = new Room(3, "The Clockmaker's Workshop", """
            Clocks cover the walls from floor to rafters, and no two agree. The clockmaker
            claims that they batch their ticks and strike together at noon.
            """);
        var garden = new Room(4, "The Herb Garden", """
            Thyme, sage and mint grow between low walls that keep off the wind. Bees go
            about their rounds as if someone were counting.
            """);
        var path = new Room(5, "The Cliff Path", """
            Gorse on one side, a long way down on the other. The lighthouse stands to the
            north; a stair cut in the rock leads down towards the sound of water.
            """);
        var cave = new Room(6, "The Tide Cave", """
            Green light moves over the roof. Whatever you say here comes back a moment
            later, all at once.
            """);
        var lamp = new Room(7, "The Lamp Room", """
            Glass all round, and the whole island below: the square, the jetty, the ferry
            no larger than a crumb. The great lamp turns with hardly a sound.
            """);

        Join(jetty, "north", square, "south");
        Join(square, "east", inn, "west");
        Join(square, "west", workshop, "east");
        Join(inn, "north", garden, "south");
        Join(square, "north", path, "south");
        Join(garden, "west", path, "east");
        Join(path, "down", cave, "up");
        Join(path, "north", lamp, "south");

        jetty.Things.Add(
            new Thing(8, "a brass bell", "It calls the ferry. Someone has tied a note to it: \"Ring once. Just once.\"", isFixed: true));
        square.Things.Add(new Thing(9, "the old well", "A long way down a star looks up at you.", isFixed: true));
        inn.Things.Add(new Thing(10, "a bowl of soup", "Onion soup under a lid of cheese. It never seems to get cold.", isFixed: false));
        workshop.Things.Add(new Thing(11, "a pocket watch", "It is right about twice a day, and proud of it.", isFixed: false));
        cave.Things.Add(new Thing(12, "a smooth pebble", "White, and warm from no sun that you can see.", isFixed: false));
        lamp.Things.Add(
            new Thing(13, "the great lamp", "Its light goes out over the sea in one broad beam: many rays, sent together.", isFixed: true));
        return [jetty, square, inn, workshop, garden, path, cave, lamp];
    }

    private static void Join(Room from, string there, Room to, string back)
    {
        from.AddExit(there, to);
        to.AddExit(back, from);
    }
}
